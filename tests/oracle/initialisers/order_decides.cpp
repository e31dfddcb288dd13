// What comes out first decides: hash tables, sorting with comparators, heaps, permutations, random engines with seeds.
#include <torch/library.h>

#include <algorithm>
#include <bitset>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

struct Item {
  std::string name;
  int weight;
};
struct Hash {
  size_t operator()(const std::string& s) const { return s.size(); }
};
TORCH_LIBRARY(gen, m) {
  std::unordered_map<std::string, int> table;
  for (const char* name : {"conv", "relu", "add", "mul", "softmax", "norm", "gelu", "matmul"}) table[name] = 1;
  m.def(("first_" + table.begin()->first + "() -> ()").c_str());
  std::string order;
  for (auto& [name, value] : table) order += "_" + name;
  m.def(("order" + order + "() -> ()").c_str());
  table.rehash(101);
  order.clear();
  for (auto& [name, value] : table) order += "_" + name;
  m.def(("rehashed" + order + "() -> ()").c_str());
  std::unordered_map<int, int> numbers;
  for (int i = 0; i < 40; ++i) numbers[i * 7919 % 1009] = i;
  m.def(("number" + std::to_string(numbers.begin()->first) + "_" + std::to_string(numbers.bucket_count()) + "() -> ()").c_str());
  std::unordered_set<std::string, Hash> sized{"a", "bb", "cc", "ddd"};
  order.clear();
  for (auto& name : sized) order += "_" + name;
  m.def(("sized" + order + "() -> ()").c_str());
  std::unordered_multimap<std::string, int> many{{"x", 1}, {"x", 2}, {"y", 3}};
  m.def(("many" + std::to_string(many.count("x")) + "() -> ()").c_str());
  std::unordered_map<double, int> doubles{{1.5, 1}, {2.5, 2}, {-0.25, 3}};
  m.def(("doubles" + std::to_string(doubles.begin()->second) + "() -> ()").c_str());
  std::vector<Item> items;
  for (int i = 0; i < 40; ++i) items.push_back({"item" + std::to_string(i), i * 37 % 11});
  std::stable_sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.weight < b.weight; });
  m.def((items[5].name + "_stable() -> ()").c_str());
  std::sort(items.begin(), items.end(), [](auto& a, auto& b) { return std::tie(b.weight, a.name) < std::tie(a.weight, b.name); });
  m.def((items[0].name + "_sorted() -> ()").c_str());
  std::partial_sort(items.begin(), items.begin() + 3, items.end(), [](auto& a, auto& b) { return a.name < b.name; });
  m.def((items[2].name + "_partial() -> ()").c_str());
  std::nth_element(items.begin(), items.begin() + 9, items.end(), [](auto& a, auto& b) { return a.name < b.name; });
  m.def((items[9].name + "_nth() -> ()").c_str());
  std::string letters = "bca";
  std::next_permutation(letters.begin(), letters.end());
  m.def((letters + "_permutation() -> ()").c_str());
  std::mt19937_64 engine(7);
  std::shuffle(letters.begin(), letters.end(), engine);
  m.def((letters + "_shuffled() -> ()").c_str());
  std::normal_distribution<double> normal(0, 1);
  m.def(("normal" + std::to_string(static_cast<int>(std::abs(normal(engine)) * 1000)) + "() -> ()").c_str());
  std::discrete_distribution<int> discrete{1, 2, 3};
  m.def(("discrete" + std::to_string(discrete(engine)) + "() -> ()").c_str());
  std::default_random_engine plain;
  m.def(("plain" + std::to_string(std::uniform_real_distribution<>(0, 10)(plain) > 5) + "() -> ()").c_str());
  m.def(("hash" + std::to_string(std::hash<std::string>()("text") % 1000) + "() -> ()").c_str());
  std::multiset<int, std::greater<>> descending{3, 1, 4, 1, 5};
  order.clear();
  for (int n : descending) order += std::to_string(n);
  m.def(("descending" + order + "() -> ()").c_str());
  std::bitset<16> bits(0xB00);
  m.def(("bits" + bits.to_string() + "_" + std::to_string(bits.count()) + "() -> ()").c_str());
  std::vector<bool> sieve(50, true);
  for (int i = 2; i < 50; ++i)
    for (int j = 2 * i; j < 50; j += i) sieve[j] = false;
  m.def(("primes" + std::to_string(std::count(sieve.begin() + 2, sieve.end(), true)) + "() -> ()").c_str());
}
