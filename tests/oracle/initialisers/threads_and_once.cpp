// Threads, futures, conditions that are met already, once flags, thread-local objects and guarded statics.
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static std::vector<std::string> names;
static void add(const std::string& name) {
  std::lock_guard<std::mutex> held(lock);
  names.push_back(name);
}
struct Counted {
  static int count;
  int number;
  Counted() : number(++count) {}
};
int Counted::count = 0;
static Counted& local() {
  static Counted one;
  return one;
}
static thread_local Counted per_thread;
static std::once_flag once;
static int tries = 0;
static void attempt() {
  std::call_once(once, [] {
    if (++tries < 3) throw std::runtime_error("again");
    add("once" + std::to_string(tries));
  });
}
TORCH_LIBRARY(gen, m) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([i] { add("thread" + std::to_string(i)); });
  for (auto& thread : threads) thread.join();
  std::sort(names.begin(), names.end());
  auto result = std::async(std::launch::async, [](int x) { return x * x; }, 7);
  add("async" + std::to_string(result.get()));
  auto lazy = std::async(std::launch::deferred, [] { return std::string("deferred"); });
  add(lazy.get());
  auto failing = std::async(std::launch::async, []() -> int { throw std::out_of_range("future"); });
  try {
    failing.get();
  } catch (const std::out_of_range& error) {
    add(error.what());
  }
  std::packaged_task<int(int)> task([](int x) { return x + 1; });
  auto future = task.get_future();
  std::thread runner(std::move(task), 9);
  runner.join();
  add("task" + std::to_string(future.get()));
  for (int i = 0; i < 5; ++i) {
    try {
      attempt();
    } catch (const std::runtime_error&) {
      add("try" + std::to_string(tries));
    }
  }
  local();
  local();
  add("static" + std::to_string(local().number));
  add("local" + std::to_string(per_thread.number + Counted::count));
  std::condition_variable ready;
  bool done = false;
  std::thread setter([&] {
    std::lock_guard<std::mutex> held(lock);
    done = true;
    ready.notify_one();
  });
  setter.join();
  {
    std::unique_lock<std::mutex> held(lock);
    ready.wait(held, [&] { return done; });
  }
  add("ready");
  std::atomic<int> sum{0};
  std::thread([&] { sum += 5; }).join();
  sum.fetch_add(2);
  add("sum" + std::to_string(sum.load()));
  std::promise<std::string> broken;
  auto waiting = broken.get_future();
  { std::promise<std::string> gone = std::move(broken); }
  try {
    waiting.get();
  } catch (const std::future_error& error) {
    add(error.code() == std::future_errc::broken_promise ? "broken" : "other");
  }
  std::shared_mutex shared;
  { std::shared_lock<std::shared_mutex> reading(shared); }
  std::recursive_mutex recursive;
  recursive.lock();
  if (recursive.try_lock()) add("recursive");
  for (auto& name : names) m.def((name + "() -> ()").c_str());
}
