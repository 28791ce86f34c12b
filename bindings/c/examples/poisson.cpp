// The Poisson equation on a square by luge.hpp: a positive definite matrix, a manufactured solution, and an error that is an
// exception.
//
//   c++ -std=c++17 poisson.cpp $(pkg-config --cflags --libs luge) && ./a.out

#include <luge.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

struct Matrix {
  std::vector<std::int32_t> row_ptr{0};
  std::vector<std::int32_t> col_idx;
  std::vector<double> values;

  std::int64_t n() const { return static_cast<std::int64_t>(row_ptr.size()) - 1; }

  luge_matrix view() const {
    return luge_csr(n(), static_cast<std::int64_t>(values.size()), row_ptr.data(), col_idx.data(), values.data());
  }
};

// The five-point stencil on m by m points; `shift` is added to the diagonal.
Matrix poisson(int m, double shift) {
  Matrix a;
  const auto add = [&a](int row, double value) {
    a.col_idx.push_back(row);
    a.values.push_back(value);
  };
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < m; ++j) {
      const int row = i * m + j;
      if (i > 0) add(row - m, -1.0);
      if (j > 0) add(row - 1, -1.0);
      add(row, 4.0 + shift);
      if (j + 1 < m) add(row + 1, -1.0);
      if (i + 1 < m) add(row + m, -1.0);
      a.row_ptr.push_back(static_cast<std::int32_t>(a.col_idx.size()));
    }
  }
  return a;
}

std::vector<double> times(const Matrix &a, const std::vector<double> &x) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::int32_t k = a.row_ptr[i]; k < a.row_ptr[i + 1]; ++k) {
      y[i] += a.values[static_cast<std::size_t>(k)] * x[static_cast<std::size_t>(a.col_idx[static_cast<std::size_t>(k)])];
    }
  }
  return y;
}

double distance(const std::vector<double> &a, const std::vector<double> &b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

int run() {
  const int m = 60;
  const Matrix a = poisson(m, 0.0);
  std::vector<double> expected(static_cast<std::size_t>(m) * m);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::sin(0.1 * static_cast<double>(i));
  }

  luge::Options options;
  options.set(LUGE_OPTION_KIND, LUGE_KIND_POSITIVE_DEFINITE).set(LUGE_OPTION_BACKEND, LUGE_BACKEND_CPU);
  const luge::Solver solver(options);
  luge::Factors factors = solver.analyze(a.view()).factorize(a.view());

  luge_accuracy accuracy{};
  const std::vector<double> x = factors.solve(times(a, expected), LUGE_NO_TRANSPOSE, &accuracy);
  const double error = distance(x, expected);

  // The same pattern with other values, and a matrix that is not positive definite.
  const Matrix shifted = poisson(m, 1.0);
  factors.refactorize(shifted.values);
  std::vector<double> y = times(shifted, expected);
  factors.solve_in_place(y);
  const double error_of_shifted = distance(y, expected);
  std::int64_t column = -1;
  try {
    factors.refactorize(poisson(m, -3.0).values);
  } catch (const luge::Error &refused) {
    std::printf("refused: %s\n", refused.what());
    column = refused.status() == LUGE_ERROR_NOT_POSITIVE_DEFINITE ? refused.column() : -1;
  }

  std::printf("%lld unknowns, %lld entries of L, error %.1e, shifted %.1e, backward error %.1e\n",
              static_cast<long long>(a.n()), static_cast<long long>(factors.inform().lnz), error, error_of_shifted,
              accuracy.backward_error);
  return error < 1e-11 && error_of_shifted < 1e-12 && accuracy.backward_error < 1e-14 && column >= 0 ? 0 : 1;
}

} // namespace

int main() {
  try {
    return run();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
