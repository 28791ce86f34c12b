/*
 * Values and vectors that stay on a GPU: a convection-diffusion equation whose wind turns, factorized anew for each direction.
 * Kernels of the caller would write into the buffers, at luge_buffer_address and on luge_solver_stream; here the host does.
 * Without a GPU there is nothing to show, and the program says so.
 *
 *   cc on_device.c $(pkg-config --cflags --libs luge) -lm && ./a.out
 */

#include <luge.h>

#include <math.h>
#include <stdio.h>

#define M 64
#define N (M * M)
#define MAX_ENTRIES (5 * N)

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    if ((call) != LUGE_OK) {                                                                                 \
      fprintf(stderr, "%s\n  %s\n", #call, luge_last_error_message());                                       \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

static int32_t row_ptr[N + 1], col_idx[MAX_ENTRIES];
static double values[MAX_ENTRIES], b[N], x[N];

/* The matrix for a wind in this direction; answers with the number of entries. */
static int fill(double direction)
{
  const double u = 0.8 * cos(direction), v = 0.8 * sin(direction);
  int i, j, k = 0;
  for (i = 0; i < M; i++) {
    for (j = 0; j < M; j++) {
      const int row = i * M + j;
      row_ptr[row] = k;
      if (i > 0) {
        col_idx[k] = row - M;
        values[k++] = -1.0 - v;
      }
      if (j > 0) {
        col_idx[k] = row - 1;
        values[k++] = -1.0 - u;
      }
      col_idx[k] = row;
      values[k++] = 4.0;
      if (j + 1 < M) {
        col_idx[k] = row + 1;
        values[k++] = -1.0 + u;
      }
      if (i + 1 < M) {
        col_idx[k] = row + M;
        values[k++] = -1.0 + v;
      }
    }
  }
  row_ptr[N] = k;
  return k;
}

int main(void)
{
  const int nnz = fill(0.0);
  const luge_matrix a = luge_csr(N, nnz, row_ptr, col_idx, values);
  luge_options *options = NULL;
  luge_solver *solver = NULL;
  luge_analysis *analysis = NULL;
  luge_factors *factors = NULL;
  luge_buffer *new_values = NULL, *vector = NULL;
  luge_status status;
  void *stream = NULL;
  uint64_t address = 0;
  double worst = 0.0;
  int i, k, step, repivoted = 0;

  CHECK(luge_options_create(&options));
  CHECK(luge_options_set_int(options, LUGE_OPTION_BACKEND, LUGE_BACKEND_GPU));
  status = luge_solver_create(options, &solver);
  luge_options_free(&options);
  if (status == LUGE_ERROR_DEVICE || status == LUGE_ERROR_FEATURE_OFF) {
    printf("skipped: %s\n", luge_last_error_message());
    return 0;
  }
  CHECK(status);
  CHECK(luge_analyze(solver, &a, &analysis));
  CHECK(luge_factorize(analysis, &a, &factors));
  CHECK(luge_buffer_create(solver, nnz, &new_values));
  CHECK(luge_buffer_create(solver, N, &vector));
  CHECK(luge_solver_stream(solver, &stream));
  CHECK(luge_buffer_address(vector, &address));
  if (stream == NULL || address == 0) {
    return 1;
  }

  for (step = 1; step <= 10; step++) {
    luge_refactorized outcome = {0};
    luge_accuracy accuracy = {0};
    double largest = 0.0;
    fill(0.3 * step);
    for (i = 0; i < N; i++) {
      b[i] = 1.0 + (i % 7);
    }
    CHECK(luge_buffer_write(new_values, nnz, values));
    CHECK(luge_buffer_write(vector, N, b));
    outcome.size = sizeof outcome;
    CHECK(luge_refactorize_device(factors, new_values, &outcome));
    repivoted += outcome.is_repivoted;
    accuracy.size = sizeof accuracy;
    CHECK(luge_solve_device(factors, LUGE_NO_TRANSPOSE, 1, vector, &accuracy));
    CHECK(luge_buffer_read(vector, N, x));
    for (i = 0; i < N; i++) {
      double r = b[i];
      for (k = row_ptr[i]; k < row_ptr[i + 1]; k++) {
        r -= values[k] * x[col_idx[k]];
      }
      worst = fmax(worst, fabs(r));
      largest = fmax(largest, fabs(x[i]));
    }
    if (!(worst <= 1e-12 * (8.0 * largest + 7.0))) {
      fprintf(stderr, "step %d leaves a residual of %g\n", step, worst);
      return 1;
    }
  }
  printf("10 refactorizations on the device, new pivots %d times, largest residual %.1e\n", repivoted, worst);

  luge_buffer_free(&vector);
  luge_buffer_free(&new_values);
  luge_factors_free(&factors);
  luge_analysis_free(&analysis);
  luge_solver_free(&solver);
  return 0;
}
