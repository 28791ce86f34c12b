/*
 * A symmetric indefinite system: a quadratic program with equality constraints, minimize x'Hx/2 - c'x subject to Ax = b. Its
 * inertia says whether the point is a minimum: as many positive eigenvalues as unknowns, as many negative ones as constraints.
 * Only the lower triangle is stored, with Fortran's numbers.
 *
 *   cc saddle_point.c $(pkg-config --cflags --libs luge) -lm && ./a.out
 */

#include <luge.h>

#include <math.h>
#include <stdio.h>

#define UNKNOWNS 300
#define CONSTRAINTS 100
#define ORDER (UNKNOWNS + CONSTRAINTS)
#define MAX_ENTRIES (2 * UNKNOWNS + 4 * CONSTRAINTS)

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    if ((call) != LUGE_OK) {                                                                                 \
      fprintf(stderr, "%s\n  %s\n", #call, luge_last_error_message());                                       \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

int main(void)
{
  static int64_t row_ptr[ORDER + 1], col_idx[MAX_ENTRIES];
  static double values[MAX_ENTRIES], b[2 * ORDER], x[2 * ORDER], r[ORDER];
  luge_options *options = NULL;
  luge_solver *solver = NULL;
  luge_analysis *analysis = NULL;
  luge_factors *factors = NULL;
  luge_matrix a;
  luge_inform inform = {0};
  int64_t positive = 0, negative = 0, zero = 0;
  double worst = 0.0;
  int i, j, k = 0, side;

  /* H is tridiagonal; constraint i sums three unknowns; the last block is zero, and not stored. */
  for (i = 0; i < ORDER; i++) {
    row_ptr[i] = k + 1;
    if (i < UNKNOWNS) {
      if (i > 0) {
        col_idx[k] = i;
        values[k++] = -1.0;
      }
      col_idx[k] = i + 1;
      values[k++] = 2.5 + 0.01 * i;
    } else {
      for (j = 0; j < 3; j++) {
        col_idx[k] = 3 * (i - UNKNOWNS) + j + 1;
        values[k++] = 1.0 + j;
      }
    }
  }
  row_ptr[ORDER] = k + 1;
  a = luge_csr_i64(ORDER, k, row_ptr, col_idx, values);
  a.index_base = 1;

  CHECK(luge_options_create(&options));
  CHECK(luge_options_set_int(options, LUGE_OPTION_KIND, LUGE_KIND_SYMMETRIC));
  CHECK(luge_solver_create(options, &solver));
  CHECK(luge_analyze(solver, &a, &analysis));
  CHECK(luge_factorize(analysis, &a, &factors));
  CHECK(luge_inertia(factors, &positive, &negative, &zero));
  inform.size = sizeof inform;
  CHECK(luge_factors_inform(factors, &inform));

  /* Two right-hand sides. */
  for (i = 0; i < 2 * ORDER; i++) {
    b[i] = sin(1.0 + i);
  }
  CHECK(luge_solve(factors, LUGE_NO_TRANSPOSE, 2, b, ORDER, x, ORDER, NULL));

  for (side = 0; side < 2; side++) {
    for (i = 0; i < ORDER; i++) {
      r[i] = b[side * ORDER + i];
    }
    for (i = 0; i < ORDER; i++) {
      for (k = (int)row_ptr[i] - 1; k < (int)row_ptr[i + 1] - 1; k++) {
        j = (int)col_idx[k] - 1;
        r[i] -= values[k] * x[side * ORDER + j];
        if (j != i) {
          r[j] -= values[k] * x[side * ORDER + i];
        }
      }
    }
    for (i = 0; i < ORDER; i++) {
      worst = fmax(worst, fabs(r[i]));
    }
  }
  printf("%lld positive, %lld negative, %lld zero eigenvalues; %lld pivots of order 2; largest residual %.1e\n",
         (long long)positive, (long long)negative, (long long)zero, (long long)inform.num_two, worst);

  luge_factors_free(&factors);
  luge_analysis_free(&analysis);
  luge_solver_free(&solver);
  luge_options_free(&options);
  return positive == UNKNOWNS && negative == CONSTRAINTS && zero == 0 && worst < 1e-12 ? 0 : 1;
}
