// Operators that use features of the processor in the ways in which libraries do: at once, behind a question, by a
// table that the load fills, through other functions. Each adds something to the sum of a tensor, so none is left out.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <immintrin.h>
#include <torch/library.h>

#include <functional>
#include <memory>

#define AVX2 __attribute__((target("avx2"), noinline))
#define AVX512 __attribute__((target("avx512f"), noinline))

namespace {

float sum_of(const at::Tensor &x) { return x.sum().item<float>(); }

AVX2 float by_avx2(const float *data) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(data));
    v = _mm256_add_epi32(v, v);
    return static_cast<float>(_mm256_extract_epi32(v, 3) & 1);
}

AVX512 float by_avx512(const float *data) {
    return _mm512_reduce_add_ps(_mm512_loadu_ps(data));
}

const float *data_of(const at::Tensor &x) { return x.data_ptr<float>(); }

at::Tensor result(const at::Tensor &x, float more) { return at::add(x, more); }

at::Tensor plain(const at::Tensor &x) { return result(x, sum_of(x)); }
at::Tensor avx2(const at::Tensor &x) { return result(x, by_avx2(data_of(x))); }
at::Tensor avx512(const at::Tensor &x) { return result(x, by_avx512(data_of(x))); }

__attribute__((target("avx"), noinline)) float avx_sum(const float *data) {
    __m256 v = _mm256_loadu_ps(data);
    v = _mm256_add_ps(v, v);
    return _mm256_cvtss_f32(v);
}
at::Tensor avx(const at::Tensor &x) { return result(x, avx_sum(data_of(x))); }

__attribute__((target("fma"), noinline)) float fma_sum(float a, float b) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(a)));
}
at::Tensor fma_(const at::Tensor &x) { return result(x, fma_sum(data_of(x)[0], data_of(x)[1])); }

__attribute__((target("f16c"), noinline)) float half(float a) { return _cvtsh_ss(_cvtss_sh(a, 0)); }
at::Tensor f16c(const at::Tensor &x) { return result(x, half(data_of(x)[0])); }

__attribute__((target("bmi2"), noinline)) uint64_t deposit(uint64_t a) { return _pdep_u64(a, 0xF0F0); }
at::Tensor bmi2(const at::Tensor &x) { return result(x, static_cast<float>(deposit(x.numel()))); }

__attribute__((target("bmi"), noinline)) uint64_t lowest(uint64_t a) { return _blsi_u64(a); }
at::Tensor bmi1(const at::Tensor &x) { return result(x, static_cast<float>(lowest(x.numel()))); }

__attribute__((target("sse4.2"), noinline)) uint32_t checksum(uint32_t a) { return _mm_crc32_u32(1, a); }
at::Tensor sse42(const at::Tensor &x) { return result(x, static_cast<float>(checksum(x.numel()))); }

__attribute__((target("popcnt"), noinline)) int bits(uint64_t a) { return __builtin_popcountll(a); }
at::Tensor popcnt(const at::Tensor &x) { return result(x, static_cast<float>(bits(x.numel()))); }

__attribute__((target("lzcnt"), noinline)) int zeros(uint64_t a) { return __builtin_clzll(a); }
at::Tensor lzcnt(const at::Tensor &x) { return result(x, static_cast<float>(zeros(x.numel()))); }

__attribute__((target("movbe"), noinline)) uint32_t swapped(const uint32_t *a) { return __builtin_bswap32(*a); }
at::Tensor movbe(const at::Tensor &x) {
    return result(x, static_cast<float>(swapped(reinterpret_cast<const uint32_t *>(data_of(x)))));
}

__attribute__((target("aes,sse2"), noinline)) int round_of(int a) {
    return _mm_cvtsi128_si32(_mm_aesenc_si128(_mm_set1_epi32(a), _mm_set1_epi32(1)));
}
at::Tensor aes(const at::Tensor &x) { return result(x, static_cast<float>(round_of(3))); }

// Behind questions

at::Tensor asks_builtin(const at::Tensor &x) {
    return result(x, __builtin_cpu_supports("avx2") ? by_avx2(data_of(x)) : sum_of(x));
}

at::Tensor asks_avx512(const at::Tensor &x) {
    return result(x, __builtin_cpu_supports("avx512f") ? by_avx512(data_of(x)) : sum_of(x));
}

__attribute__((noinline)) bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
at::Tensor asks_function(const at::Tensor &x) { return result(x, has_avx2() ? by_avx2(data_of(x)) : sum_of(x)); }

at::Tensor asks_once(const at::Tensor &x) {
    static const bool has = has_avx2();
    return result(x, has ? by_avx2(data_of(x)) : sum_of(x));
}

float by_sum(const float *data) { return data[0] + data[1]; }
using Kernel = float (*)(const float *);
Kernel chosen = __builtin_cpu_supports("avx2") ? by_avx2 : by_sum;
at::Tensor chosen_at_load(const at::Tensor &x) { return result(x, chosen(data_of(x))); }

__attribute__((target_clones("avx2", "default"), noinline)) float cloned(const float *data, int64_t n) {
    float all = 0;
    for (int64_t at = 0; at < n; at++)
        all += data[at] * 3;
    return all;
}
at::Tensor clones(const at::Tensor &x) { return result(x, cloned(data_of(x), x.numel())); }

struct Worker {
    virtual ~Worker() = default;
    virtual float work(const float *data) { return data[0]; }
};
struct FastWorker : Worker {
    float work(const float *data) override { return by_avx2(data); }
};
__attribute__((noinline)) std::unique_ptr<Worker> make_worker() {
    if (__builtin_cpu_supports("avx2"))
        return std::make_unique<FastWorker>();
    return std::make_unique<Worker>();
}
at::Tensor asks_factory(const at::Tensor &x) { return result(x, make_worker()->work(data_of(x))); }

__attribute__((noinline)) float dispatched(const float *data) {
    return has_avx2() ? by_avx2(data) : by_sum(data);
}
at::Tensor asks_below(const at::Tensor &x) { return result(x, dispatched(data_of(x))); }

// Through other functions, unasked

__attribute__((noinline)) float third(const float *data) { return by_avx2(data) + 1; }
__attribute__((noinline)) float second(const float *data) { return third(data) + 1; }
at::Tensor deep(const at::Tensor &x) { return result(x, second(data_of(x))); }

at::Tensor through_object(const at::Tensor &x) {
    std::unique_ptr<Worker> worker = std::make_unique<FastWorker>();
    return result(x, worker->work(data_of(x)));
}

at::Tensor through_closure(const at::Tensor &x) {
    const float *data = data_of(x);
    std::function<float()> work = [data] { return by_avx2(data); };
    return result(x, work());
}

at::Tensor in_parallel(const at::Tensor &x) {
    at::Tensor y = x.clone();
    float *data = y.data_ptr<float>();
    at::parallel_for(0, 1, 1, [data](int64_t, int64_t) { data[0] = by_avx2(data); });
    return y;
}

at::Tensor asks_then_uses_another(const at::Tensor &x) {
    float more = __builtin_cpu_supports("avx512f") ? by_avx512(data_of(x)) : 0;
    return result(x, more);
}

at::Tensor uses_then_asks(const at::Tensor &x) {
    float more = by_avx2(data_of(x));
    return result(x, __builtin_cpu_supports("avx512f") ? more + by_avx512(data_of(x)) : more);
}

}  // namespace

TORCH_LIBRARY(cpu_uses, m) {
    m.def("plain", plain);
    m.def("avx", avx);
    m.def("avx2", avx2);
    m.def("avx512", avx512);
    m.def("fma", fma_);
    m.def("f16c", f16c);
    m.def("bmi1", bmi1);
    m.def("bmi2", bmi2);
    m.def("sse42", sse42);
    m.def("popcnt", popcnt);
    m.def("lzcnt", lzcnt);
    m.def("movbe", movbe);
    m.def("aes", aes);
    m.def("asks_builtin", asks_builtin);
    m.def("asks_avx512", asks_avx512);
    m.def("asks_function", asks_function);
    m.def("asks_once", asks_once);
    m.def("chosen_at_load", chosen_at_load);
    m.def("clones", clones);
    m.def("asks_factory", asks_factory);
    m.def("asks_below", asks_below);
    m.def("deep", deep);
    m.def("through_object", through_object);
    m.def("through_closure", through_closure);
    m.def("in_parallel", in_parallel);
    m.def("asks_then_uses_another", asks_then_uses_another);
    m.def("uses_then_asks", uses_then_asks);
}
