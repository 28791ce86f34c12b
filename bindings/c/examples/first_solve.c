/*
 * A first solve: a matrix by columns, as KLU takes it, one right-hand side, and the backward error.
 *
 *   cc first_solve.c $(pkg-config --cflags --libs luge) -lm && ./a.out
 */

#include <luge.h>

#include <math.h>
#include <stdio.h>

/* Ends the program with Luge's message where a call fails. */
#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    if ((call) != LUGE_OK) {                                                                                 \
      fprintf(stderr, "%s\n  %s\n", #call, luge_last_error_message());                                       \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

int main(void)
{
  /* The example of KLU's manual; the solution is 1, 2, 3, 4, 5. */
  const int32_t col_ptr[] = {0, 2, 5, 9, 10, 12};
  const int32_t row_idx[] = {0, 1, 0, 2, 4, 1, 2, 3, 4, 2, 1, 4};
  const double values[] = {2, 3, 3, -1, 4, 4, -3, 1, 2, 2, 6, 1};
  const double b[] = {8, 45, -3, 3, 19};
  const luge_matrix a = luge_csc(5, 12, col_ptr, row_idx, values);
  luge_solver *solver = NULL;
  luge_analysis *analysis = NULL;
  luge_factors *factors = NULL;
  luge_accuracy accuracy = {0};
  luge_inform inform = {0};
  double x[5];
  double residual = 0.0;
  double mantissa = 0.0;
  int64_t exponent = 0;
  int i;

  CHECK(luge_solver_create(NULL, &solver));
  CHECK(luge_analyze(solver, &a, &analysis));
  CHECK(luge_factorize(analysis, &a, &factors));
  accuracy.size = sizeof accuracy;
  CHECK(luge_solve(factors, LUGE_NO_TRANSPOSE, 1, b, 5, x, 5, &accuracy));
  inform.size = sizeof inform;
  CHECK(luge_factors_inform(factors, &inform));
  CHECK(luge_determinant(factors, &mantissa, &exponent));

  for (i = 0; i < 5; i++) {
    printf("x[%d] = %.15g\n", i, x[i]);
    residual = fmax(residual, fabs(x[i] - (i + 1)));
  }
  printf("%lld entries of L, %lld of U; determinant %g; backward error %.1e\n", (long long)inform.lnz,
         (long long)inform.unz, ldexp(mantissa, (int)exponent), accuracy.backward_error);

  luge_factors_free(&factors);
  luge_analysis_free(&analysis);
  luge_solver_free(&solver);
  if (!(residual < 1e-13) || !(accuracy.backward_error < 1e-15)) {
    fprintf(stderr, "the error of the solution is %g\n", residual);
    return 1;
  }
  return 0;
}
