/*
 * luge.hpp - a thin wrapper of luge.h for C++17: handles that free themselves, and errors as exceptions.
 *
 * Each class holds one handle and has the calls of luge.h that take it; what they do, luge.h says. `get()` lends the handle to
 * the calls that have no method here. An object that was moved from holds no handle, and its calls throw.
 *
 *   luge::Options options;
 *   options.set(LUGE_OPTION_KIND, LUGE_KIND_SYMMETRIC);
 *   luge::Solver solver(options);
 *   luge_matrix a = luge_csr(n, nnz, row_ptr, col_idx, values);
 *   luge::Factors factors = solver.analyze(a).factorize(a);
 *   std::vector<double> x = factors.solve(b);
 */

#ifndef LUGE_HPP
#define LUGE_HPP

#include <luge.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace luge {

/* A call of luge.h that failed. */
class Error : public std::runtime_error {
public:
  Error(const char *message, const luge_error &error) : std::runtime_error(message), error_(error) {}

  luge_status status() const noexcept { return error_.status; }
  /* Row and column, from 0; -1 where the error has none. */
  std::int64_t row() const noexcept { return error_.row; }
  std::int64_t column() const noexcept { return error_.column; }
  /* All numbers of the error. */
  const luge_error &numbers() const noexcept { return error_; }

private:
  luge_error error_;
};

/* Throws the last error of this thread unless `status` is LUGE_OK. */
inline void check(luge_status status) {
  if (status == LUGE_OK) {
    return;
  }
  luge_error error{};
  error.size = sizeof error;
  luge_last_error(&error);
  throw Error(luge_last_error_message(), error);
}

inline int version() { return luge_version(); }

namespace detail {

/* A handle that is freed by `free`. */
template <class H, luge_status (*free)(H **)> struct Free {
  void operator()(H *handle) const noexcept { free(&handle); }
};

template <class H, luge_status (*free)(H **)> using Handle = std::unique_ptr<H, Free<H, free>>;

/* The text that `call(capacity, text, length)` writes. */
template <class Call> std::string text(Call call) {
  std::size_t length = 0;
  check(call(std::size_t{0}, nullptr, &length));
  std::string text(length + 1, '\0');
  check(call(text.size(), &text[0], &length));
  text.resize(length);
  return text;
}

/* Complex numbers as pairs of real ones, which they are. */
inline const double *parts(const std::complex<double> *numbers) noexcept {
  return reinterpret_cast<const double *>(numbers);
}
inline double *parts(std::complex<double> *numbers) noexcept { return reinterpret_cast<double *>(numbers); }

/* A structure with its size. */
template <class S> S sized() {
  S structure{};
  structure.size = sizeof structure;
  return structure;
}

} // namespace detail

/* A pattern, as luge_csr and its kin make it, with complex values. */
inline luge_matrix with_values(luge_matrix pattern, const std::complex<double> *values) noexcept {
  pattern.value_type = LUGE_COMPLEX_F64;
  pattern.values = values;
  return pattern;
}

class Options {
public:
  Options() {
    luge_options *handle = nullptr;
    check(luge_options_create(&handle));
    handle_.reset(handle);
  }

  Options &set(luge_int_option option, std::int64_t value) {
    check(luge_options_set_int(get(), option, value));
    return *this;
  }

  Options &set(luge_real_option option, double value) {
    check(luge_options_set_real(get(), option, value));
    return *this;
  }

  luge_options *get() const noexcept { return handle_.get(); }

private:
  detail::Handle<luge_options, luge_options_free> handle_;
};

struct Inertia {
  std::int64_t positive = 0;
  std::int64_t negative = 0;
  std::int64_t zero = 0;
};

/* The factors of a matrix. */
class Factors {
public:
  explicit Factors(luge_factors *handle, std::int64_t n) : handle_(handle), n_(n) {}

  /* The order of the matrix. */
  std::int64_t n() const noexcept { return n_; }

  luge_refactorized refactorize(const luge_matrix &matrix) {
    luge_refactorized outcome = detail::sized<luge_refactorized>();
    check(luge_refactorize(get(), &matrix, &outcome));
    return outcome;
  }

  luge_refactorized refactorize(const std::vector<double> &values) {
    luge_refactorized outcome = detail::sized<luge_refactorized>();
    check(luge_refactorize_values(get(), static_cast<std::int64_t>(values.size()), values.data(), &outcome));
    return outcome;
  }

  luge_refactorized refactorize(const std::vector<std::complex<double>> &values) {
    luge_refactorized outcome = detail::sized<luge_refactorized>();
    check(luge_refactorize_values_complex(get(), static_cast<std::int64_t>(values.size()), detail::parts(values.data()),
                                          &outcome));
    return outcome;
  }

  /* Only the entries at these places of the stored ones, from 0 on, have other values. */
  luge_refactorized refactorize_changed(const std::vector<std::int64_t> &places, const std::vector<double> &values) {
    if (places.size() != values.size()) {
      throw std::invalid_argument("one value for each place");
    }
    luge_refactorized outcome = detail::sized<luge_refactorized>();
    check(luge_refactorize_changed(get(), static_cast<std::int64_t>(values.size()), places.data(), values.data(), &outcome));
    return outcome;
  }

  luge_refactorized refactorize_changed(const std::vector<std::int64_t> &places,
                                        const std::vector<std::complex<double>> &values) {
    if (places.size() != values.size()) {
      throw std::invalid_argument("one value for each place");
    }
    luge_refactorized outcome = detail::sized<luge_refactorized>();
    check(luge_refactorize_changed_complex(get(), static_cast<std::int64_t>(values.size()), places.data(),
                                           detail::parts(values.data()), &outcome));
    return outcome;
  }

  /* Solutions for the right-hand sides in `b`, one after another; `accuracy` says how good they are. */
  std::vector<double> solve(const std::vector<double> &b, luge_operation operation = LUGE_NO_TRANSPOSE,
                            luge_accuracy *accuracy = nullptr) const {
    std::vector<double> x(b.size());
    check(luge_solve(get(), operation, count(b), b.data(), leading(), x.data(), leading(), sized(accuracy)));
    return x;
  }

  /* Replaces the right-hand sides in `x` by solutions, refined only where one pass is not good enough. */
  luge_accuracy solve_in_place(std::vector<double> &x, luge_operation operation = LUGE_NO_TRANSPOSE) const {
    luge_accuracy accuracy = detail::sized<luge_accuracy>();
    check(luge_solve_in_place(get(), operation, count(x), x.data(), leading(), &accuracy));
    return accuracy;
  }

  std::vector<std::complex<double>> solve(const std::vector<std::complex<double>> &b,
                                          luge_operation operation = LUGE_NO_TRANSPOSE,
                                          luge_accuracy *accuracy = nullptr) const {
    std::vector<std::complex<double>> x(b.size());
    check(luge_solve_complex(get(), operation, count(b), detail::parts(b.data()), leading(), detail::parts(x.data()),
                             leading(), sized(accuracy)));
    return x;
  }

  luge_accuracy solve_in_place(std::vector<std::complex<double>> &x,
                               luge_operation operation = LUGE_NO_TRANSPOSE) const {
    luge_accuracy accuracy = detail::sized<luge_accuracy>();
    check(luge_solve_in_place_complex(get(), operation, count(x), detail::parts(x.data()), leading(), &accuracy));
    return accuracy;
  }

  luge_inform inform() const {
    luge_inform inform = detail::sized<luge_inform>();
    check(luge_factors_inform(get(), &inform));
    return inform;
  }

  std::string json() const {
    return detail::text([this](std::size_t capacity, char *text, std::size_t *length) {
      return luge_factors_json(get(), capacity, text, length);
    });
  }

  std::string warnings() const {
    return detail::text([this](std::size_t capacity, char *text, std::size_t *length) {
      return luge_factors_warnings(get(), capacity, text, length);
    });
  }

  Inertia inertia() const {
    Inertia inertia;
    check(luge_inertia(get(), &inertia.positive, &inertia.negative, &inertia.zero));
    return inertia;
  }

  double rcond() const {
    double rcond = 0.0;
    check(luge_rcond(get(), &rcond));
    return rcond;
  }

  luge_factors *get() const noexcept { return handle_.get(); }

private:
  detail::Handle<luge_factors, luge_factors_free> handle_;
  std::int64_t n_;

  std::int64_t leading() const noexcept { return n_ > 0 ? n_ : 1; }

  template <class T> std::int64_t count(const std::vector<T> &vectors) const {
    const std::int64_t size = static_cast<std::int64_t>(vectors.size());
    if (size % leading() != 0) {
      throw std::invalid_argument("the right-hand sides have " + std::to_string(size) +
                                  " numbers; the matrix has order " + std::to_string(n_));
    }
    return n_ > 0 ? size / n_ : 0;
  }

  static luge_accuracy *sized(luge_accuracy *accuracy) noexcept {
    if (accuracy != nullptr) {
      accuracy->size = sizeof *accuracy;
    }
    return accuracy;
  }
};

/* The analysis of a pattern. */
class Analysis {
public:
  explicit Analysis(luge_analysis *handle, std::int64_t n) : handle_(handle), n_(n) {}

  Factors factorize(const luge_matrix &matrix) const {
    luge_factors *factors = nullptr;
    check(luge_factorize(get(), &matrix, &factors));
    return Factors(factors, n_);
  }

  Factors factorize(const std::vector<double> &values) const {
    luge_factors *factors = nullptr;
    check(luge_factorize_values(get(), static_cast<std::int64_t>(values.size()), values.data(), &factors));
    return Factors(factors, n_);
  }

  Factors factorize(const std::vector<std::complex<double>> &values) const {
    luge_factors *factors = nullptr;
    check(luge_factorize_values_complex(get(), static_cast<std::int64_t>(values.size()), detail::parts(values.data()),
                                        &factors));
    return Factors(factors, n_);
  }

  luge_inform inform() const {
    luge_inform inform = detail::sized<luge_inform>();
    check(luge_analysis_inform(get(), &inform));
    return inform;
  }

  luge_analysis *get() const noexcept { return handle_.get(); }

private:
  detail::Handle<luge_analysis, luge_analysis_free> handle_;
  std::int64_t n_;
};

/* Options and a device, for any number of matrices. */
class Solver {
public:
  Solver() { create(nullptr); }
  explicit Solver(const Options &options) { create(options.get()); }

  Analysis analyze(const luge_matrix &matrix) const {
    luge_analysis *analysis = nullptr;
    check(luge_analyze(get(), &matrix, &analysis));
    return Analysis(analysis, matrix.n);
  }

  /* Stops calls of other threads until `resume`. */
  void cancel() const { check(luge_solver_cancel(get())); }
  void resume() const { check(luge_solver_resume(get())); }

  luge_solver *get() const noexcept { return handle_.get(); }

private:
  detail::Handle<luge_solver, luge_solver_free> handle_;

  void create(const luge_options *options) {
    luge_solver *handle = nullptr;
    check(luge_solver_create(options, &handle));
    handle_.reset(handle);
  }
};

} // namespace luge

#endif /* LUGE_HPP */
