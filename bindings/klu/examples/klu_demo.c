/* All that klu.h declares, called once for each of its four interfaces, on a small network. What is printed is the same with any
 * library that keeps to klu.h, up to the last digits, which are not printed; what depends on the ordering is checked, and only the
 * outcome is printed.
 *
 * cc klu_demo.c -I/usr/include/suitesparse -lklu -lm
 */
#ifndef INTEGER

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <klu.h>

static int failures;

static void check(int holds, const char *what)
{
    if (!holds) {
        printf("  WRONG: %s\n", what);
        failures++;
    }
}

#define ORDER 7
#define ENTRIES 19

/* A ladder of resistors with a source; column 6 is a block of its own. */
static const int column_ends[ORDER + 1] = {0, 3, 6, 9, 12, 15, 17, 19};
static const int entry_rows[ENTRIES] = {0, 1, 5, 1, 0, 2, 2, 1, 3, 3, 2, 4, 4, 3, 0, 0, 5, 6, 2};
static const double entry_values[ENTRIES] = {3, -1, 1, 4, -1, -2, 5, -2, -1.5, 4, -1.5, -1, 2, -1, 0.25, 1, 0.125, 8, 0.5};

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

#define INTEGER int
#define TYPE(name) klu_##name
#define PLAIN(name) klu_##name
#define FIELD(name) klu_##name
#define PARTS 1
#define TITLE "int, real"
#include "klu_demo.c"
#undef FIELD
#undef PARTS
#undef TITLE
#define FIELD(name) klu_z_##name
#define PARTS 2
#define TITLE "int, complex"
#include "klu_demo.c"
#undef INTEGER
#undef TYPE
#undef PLAIN
#undef FIELD
#undef PARTS
#undef TITLE
#define INTEGER SuiteSparse_long
#define TYPE(name) klu_l_##name
#define PLAIN(name) klu_l_##name
#define FIELD(name) klu_l_##name
#define PARTS 1
#define TITLE "long, real"
#include "klu_demo.c"
#undef FIELD
#undef PARTS
#undef TITLE
#define FIELD(name) klu_zl_##name
#define PARTS 2
#define TITLE "long, complex"
#include "klu_demo.c"

int main(void)
{
    FIELD_demo_klu_factor();
    FIELD_demo_klu_z_factor();
    FIELD_demo_klu_l_factor();
    FIELD_demo_klu_zl_factor();
    printf("%d wrong\n", failures);
    return failures != 0;
}

#else

/* One interface: INTEGER, its TYPEs, PLAIN functions and those of a FIELD, whose numbers have so many PARTS. */

#define DEMO JOIN(FIELD_demo_, FIELD(factor))

static void DEMO(void)
{
    INTEGER ap[ORDER + 1], ai[ENTRIES];
    double ax[ENTRIES * PARTS], b[2 * ORDER * PARTS], x[2 * ORDER * PARTS], old[ENTRIES * PARTS];
    TYPE(common) common;
    TYPE(symbolic) *symbolic;
    TYPE(numeric) *numeric;
    INTEGER i, j, p, ok;
    int part, round;

    printf("%s\n", TITLE);
    ok = PLAIN(defaults)(&common);
    printf("  defaults %d: tol %g scale %d btf %d ordering %d halt %d\n", (int)ok, common.tol, (int)common.scale, (int)common.btf,
           (int)common.ordering, (int)common.halt_if_singular);
    for (i = 0; i <= ORDER; i++)
        ap[i] = column_ends[i];
    for (p = 0; p < ENTRIES; p++) {
        ai[p] = entry_rows[p];
        for (part = 0; part < PARTS; part++)
            ax[p * PARTS + part] = part == 0 ? entry_values[p] : 0.25 * (p % 3);
    }

    symbolic = PLAIN(analyze)(ORDER, ap, ai, &common);
    printf("  analyze: status %d, order %d, %d entries, %d blocks, the largest %d, rank %d\n", (int)common.status, (int)symbolic->n,
           (int)symbolic->nz, (int)symbolic->nblocks, (int)symbolic->maxblock, (int)symbolic->structural_rank);
    printf("  %d entries above the blocks, ordering %d, btf %d\n", (int)symbolic->nzoff, (int)symbolic->ordering, (int)symbolic->do_btf);

    numeric = FIELD(factor)(ap, ai, ax, symbolic, &common);
    printf("  factor: status %d, rank %d, column %d\n", (int)common.status, (int)common.numerical_rank, (int)common.singular_col);

    for (round = 0; round < 2; round++) {
        /* Two right-hand sides of A x = b and of A' x = b, whose solutions are 1, 2, 3, ... and 1, 1/2, 1/3, ... */
        int transpose, side;
        for (transpose = 0; transpose <= 1; transpose++) {
            memset(b, 0, sizeof b);
            for (side = 0; side < 2; side++)
                for (j = 0; j < ORDER; j++)
                    for (p = ap[j]; p < ap[j + 1]; p++) {
                        INTEGER to = transpose ? j : ai[p], from = transpose ? ai[p] : j;
                        double value = side == 0 ? from + 1.0 : 1.0 / (from + 1.0);
                        for (part = 0; part < PARTS; part++)
                            b[(side * ORDER + to) * PARTS + part] += ax[p * PARTS + part] * value;
                    }
            memcpy(x, b, sizeof b);
#if PARTS == 1
            ok = (transpose ? FIELD(tsolve) : FIELD(solve))(symbolic, numeric, ORDER, 2, x, &common);
#else
            ok = transpose ? FIELD(tsolve)(symbolic, numeric, ORDER, 2, x, 0, &common)
                           : FIELD(solve)(symbolic, numeric, ORDER, 2, x, &common);
#endif
            printf("  %s %d:", transpose ? "tsolve" : "solve", (int)ok);
            for (j = 0; j < 2 * ORDER; j++)
                printf(" %.6f", x[j * PARTS] + 1e-12);
            printf("\n");
        }

        ok = FIELD(rcond)(symbolic, numeric, &common);
        check(common.rcond > 1e-3 && common.rcond <= 1, "rcond");
        ok += FIELD(condest)(ap, ax, symbolic, numeric, &common);
        ok += FIELD(rgrowth)(ap, ai, ax, symbolic, numeric, &common);
        check(common.rgrowth > 1e-3 && common.rgrowth <= 1, "rgrowth");
        ok += FIELD(flops)(symbolic, numeric, &common);
        check(common.flops > ORDER && common.flops < 200, "flops");
        ok += FIELD(sort)(symbolic, numeric, &common);
        printf("  %d answers, condition %.4f\n", (int)ok, common.condest);

        /* L U + F = R^-1 A(P, Q), where R is in the order of the pivots, too. */
        {
            INTEGER lnz = numeric->lnz, unz = numeric->unz, nzoff = numeric->nzoff, k;
            INTEGER *lp = malloc((ORDER + 1) * sizeof *lp), *li = malloc(lnz * sizeof *li);
            INTEGER *up = malloc((ORDER + 1) * sizeof *up), *ui = malloc(unz * sizeof *ui);
            INTEGER *fp = malloc((ORDER + 1) * sizeof *fp), *fi = malloc((nzoff + 1) * sizeof *fi);
            double *lx = malloc(lnz * sizeof *lx), *lz = malloc(lnz * sizeof *lz);
            double *ux = malloc(unz * sizeof *ux), *uz = malloc(unz * sizeof *uz);
            double *fx = malloc((nzoff + 1) * sizeof *fx), *fz = malloc((nzoff + 1) * sizeof *fz);
            INTEGER perm[ORDER], cols[ORDER], starts[ORDER + 1];
            double rs[ORDER], real[ORDER][ORDER], imag[ORDER][ORDER], worst = 0;
            for (p = 0; p < lnz; p++)
                lz[p] = 0;
            for (p = 0; p < unz; p++)
                uz[p] = 0;
            for (p = 0; p < nzoff; p++)
                fz[p] = 0;
#if PARTS == 1
            ok = FIELD(extract)(numeric, symbolic, lp, li, lx, up, ui, ux, fp, fi, fx, perm, cols, rs, starts, &common);
#else
            ok = FIELD(extract)(numeric, symbolic, lp, li, lx, lz, up, ui, ux, uz, fp, fi, fx, fz, perm, cols, rs, starts, &common);
#endif
            memset(real, 0, sizeof real);
            memset(imag, 0, sizeof imag);
            for (j = 0; j < ORDER; j++) {
                for (p = fp[j]; p < fp[j + 1]; p++) {
                    real[fi[p]][j] += fx[p];
                    imag[fi[p]][j] += fz[p];
                }
                for (p = up[j]; p < up[j + 1]; p++)
                    for (k = lp[ui[p]]; k < lp[ui[p] + 1]; k++) {
                        real[li[k]][j] += lx[k] * ux[p] - lz[k] * uz[p];
                        imag[li[k]][j] += lx[k] * uz[p] + lz[k] * ux[p];
                    }
            }
            for (j = 0; j < ORDER; j++)
                for (i = 0; i < ORDER; i++) {
                    double re = 0, im = 0;
                    for (p = ap[cols[j]]; p < ap[cols[j] + 1]; p++)
                        if (ai[p] == perm[i]) {
                            re = ax[p * PARTS] / rs[i];
                            im = PARTS == 2 ? ax[p * PARTS + PARTS - 1] / rs[i] : 0;
                        }
                    worst = fmax(worst, fmax(fabs(real[i][j] - re), fabs(imag[i][j] - im)));
                    check(i < starts[0] || numeric->Pnum[i] == perm[i], "Pnum");
                }
            check(worst < 10 * DBL_EPSILON, "L U + F");
            check(lp[ORDER] == lnz && up[ORDER] == unz && fp[ORDER] == nzoff, "entries");
            check(starts[symbolic->nblocks] == ORDER, "blocks");
            printf("  extract %d\n", (int)ok);
            free(lp), free(li), free(lx), free(lz), free(up), free(ui), free(ux), free(uz), free(fp), free(fi), free(fx), free(fz);
        }

        if (round == 0) {
            memcpy(old, ax, sizeof ax);
            for (p = 0; p < ENTRIES * PARTS; p++)
                ax[p] *= 1.0 + 0.01 * (p % 5);
            ok = FIELD(refactor)(ap, ai, ax, symbolic, numeric, &common);
            printf("  refactor %d: status %d\n", (int)ok, (int)common.status);
        }
    }

    /* A column of zeros. */
    memcpy(ax, old, sizeof ax);
    for (p = ap[3] * PARTS; p < ap[4] * PARTS; p++)
        ax[p] = 0;
    ok = FIELD(refactor)(ap, ai, ax, symbolic, numeric, &common);
    printf("  refactor %d: status %d, column %d\n", (int)ok, (int)common.status, (int)common.singular_col);
    FIELD(free_numeric)(&numeric, &common);
    numeric = FIELD(factor)(ap, ai, ax, symbolic, &common);
    printf("  factor %s: status %d, column %d\n", numeric ? "gives factors" : "gives nothing", (int)common.status,
           (int)common.singular_col);
    ok = FIELD(rcond)(symbolic, numeric, &common);
    printf("  rcond %d: status %d, %g\n", (int)ok, (int)common.status, common.rcond);

    /* Other ways to order and to scale. */
    PLAIN(free_symbolic)(&symbolic, &common);
    check(symbolic == NULL, "a pointer to what was freed");
    for (round = 0; round < 6; round++) {
        INTEGER rows[ORDER], cols[ORDER];
        double rs[ORDER], worst = 0;
        common.ordering = round % 3;
        common.btf = round < 3;
        common.scale = round % 3;
        for (i = 0; i < ORDER; i++) {
            rows[i] = (3 * i + 2) % ORDER;
            cols[i] = (3 * i + 2) % ORDER;
        }
        symbolic = round == 5 ? PLAIN(analyze_given)(ORDER, ap, ai, rows, cols, &common) : PLAIN(analyze)(ORDER, ap, ai, &common);
        ok = FIELD(scale)(common.scale, ORDER, ap, ai, old, rs, NULL, &common);
        numeric = FIELD(factor)(ap, ai, old, symbolic, &common);
        memset(b, 0, sizeof b);
        for (j = 0; j < ORDER; j++)
            for (p = ap[j]; p < ap[j + 1]; p++)
                for (part = 0; part < PARTS; part++)
                    b[ai[p] * PARTS + part] += old[p * PARTS + part] * (j + 1.0);
        FIELD(solve)(symbolic, numeric, ORDER, 1, b, &common);
        for (j = 0; j < ORDER; j++)
            worst = fmax(worst, fabs(b[j * PARTS] - (j + 1.0)));
        check(worst < 1e-13, "a solution");
        printf("  ordering %d, btf %d, scale %d: status %d, %d blocks, first row divided by %.4f\n", (int)symbolic->ordering,
               (int)symbolic->do_btf, (int)common.scale, (int)common.status, (int)symbolic->nblocks,
               common.scale ? rs[0] : 1.0);
        /* Those of the numeric object are in the order of its pivots. */
        check(common.scale == 0 ? numeric->Rs == NULL : numeric->Rs[0] == rs[numeric->Pnum[0]], "Rs");
        FIELD(free_numeric)(&numeric, &common);
        PLAIN(free_symbolic)(&symbolic, &common);
    }

    /* What is refused. */
    ai[4] = ORDER;
    symbolic = PLAIN(analyze)(ORDER, ap, ai, &common);
    printf("  a row out of range: status %d\n", (int)common.status);
    check(symbolic == NULL, "an analysis of a row out of range");
    printf("  without a matrix: %d, status %d\n", (int)FIELD(flops)(NULL, NULL, &common), (int)common.status);
    check(PLAIN(defaults)(NULL) == 0 && FIELD(rcond)(NULL, NULL, NULL) == 0, "calls without a structure");

    {
        void *block = PLAIN(malloc)(10, sizeof(double), &common);
        block = PLAIN(realloc)(20, 10, sizeof(double), block, &common);
        check(block != NULL && common.memusage == 20 * sizeof(double), "a block");
        block = PLAIN(free)(block, 20, sizeof(double), &common);
        check(block == NULL && common.memusage == 0 && common.mempeak > 0, "memory in use at the end");
    }
}

#undef DEMO
#endif
