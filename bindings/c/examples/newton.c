/*
 * A sequence of matrices of one pattern: the equation u' = u'' + exp(u) on an interval, by the implicit Euler method with a
 * Newton iteration in each step. The pattern is analyzed once; after that only values change.
 *
 *   cc newton.c $(pkg-config --cflags --libs luge) -lm && ./a.out
 */

#include <luge.h>

#include <math.h>
#include <stdio.h>

#define N 200
#define NNZ (3 * N - 2)
#define STEPS 25

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    if ((call) != LUGE_OK) {                                                                                 \
      fprintf(stderr, "%s\n  %s\n", #call, luge_last_error_message());                                       \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

static double left(const double *u, int i) { return i > 0 ? u[i - 1] : 0.0; }

static double right(const double *u, int i) { return i + 1 < N ? u[i + 1] : 0.0; }

/* What the implicit step from `old` to `u` leaves over in row i. */
static double remainder_of(const double *u, const double *old, double h, int i)
{
  const double scale = (double)(N + 1) * (N + 1);
  return u[i] - old[i] - h * (scale * (left(u, i) - 2.0 * u[i] + right(u, i)) + exp(u[i]));
}

/* Its derivatives, row by row. */
static void jacobian(const double *u, double h, double *values)
{
  const double scale = (double)(N + 1) * (N + 1);
  int i, k = 0;
  for (i = 0; i < N; i++) {
    if (i > 0) {
      values[k++] = -h * scale;
    }
    values[k++] = 1.0 + 2.0 * h * scale - h * exp(u[i]);
    if (i + 1 < N) {
      values[k++] = -h * scale;
    }
  }
}

int main(void)
{
  static int32_t row_ptr[N + 1], col_idx[NNZ];
  static double values[NNZ], u[N], old[N], d[N];
  luge_matrix pattern;
  luge_solver *solver = NULL;
  luge_analysis *analysis = NULL;
  luge_factors *factors = NULL;
  double h = 1e-3, worst = 0.0;
  int i, j, k = 0, step, iterations = 0, repivoted = 0;

  for (i = 0; i < N; i++) {
    row_ptr[i] = k;
    for (j = i > 0 ? i - 1 : 0; j <= i + 1 && j < N; j++) {
      col_idx[k++] = j;
    }
  }
  row_ptr[N] = k;

  /* The values are not known yet: NULL. */
  pattern = luge_csr(N, NNZ, row_ptr, col_idx, NULL);
  CHECK(luge_solver_create(NULL, &solver));
  CHECK(luge_analyze(solver, &pattern, &analysis));

  for (step = 0; step < STEPS; step++) {
    double residual = INFINITY;
    for (i = 0; i < N; i++) {
      old[i] = u[i];
    }
    for (k = 0; k < 20 && residual > 1e-12; k++) {
      jacobian(u, h, values);
      if (factors == NULL) {
        CHECK(luge_factorize_values(analysis, NNZ, values, &factors));
      } else {
        luge_refactorized outcome = {0};
        outcome.size = sizeof outcome;
        CHECK(luge_refactorize_values(factors, NNZ, values, &outcome));
        repivoted += outcome.is_repivoted;
      }
      for (i = 0; i < N; i++) {
        d[i] = -remainder_of(u, old, h, i);
      }
      /* The iteration measures its own residual, so one pass of triangular solves is enough where Luge says so. */
      CHECK(luge_solve_in_place(factors, LUGE_NO_TRANSPOSE, 1, d, N, NULL));
      residual = 0.0;
      for (i = 0; i < N; i++) {
        u[i] += d[i];
      }
      for (i = 0; i < N; i++) {
        residual = fmax(residual, fabs(remainder_of(u, old, h, i)));
      }
      iterations++;
    }
    worst = fmax(worst, residual);
    h *= 1.1;
  }
  printf("%d steps, %d Newton iterations, new pivots %d times, u(1/2) = %.6f, largest residual %.1e\n", STEPS,
         iterations, repivoted, u[N / 2], worst);

  luge_factors_free(&factors);
  luge_analysis_free(&analysis);
  luge_solver_free(&solver);
  return worst <= 1e-10 && u[N / 2] > 0.07 && u[N / 2] < 0.09 ? 0 : 1;
}
