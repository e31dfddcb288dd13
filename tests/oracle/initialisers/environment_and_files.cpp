// What the process finds around it: variables, paths, files that are not there, clocks that only go forward.
#include <torch/library.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using namespace std::chrono;
static bool flag(const char* name, bool otherwise) {
  const char* value = std::getenv(name);
  return value ? std::string(value) != "0" : otherwise;
}
TORCH_LIBRARY(gen, m) {
  m.def(flag("GENERATED_FLAG", true) ? "flag_default() -> ()" : "flag_off() -> ()");
  setenv("GENERATED_FLAG", "0", 1);
  m.def(flag("GENERATED_FLAG", true) ? "flag_on() -> ()" : "flag_cleared() -> ()");
  setenv("GENERATED_FLAG", "1", 0);
  m.def((std::string("flag_is_") + getenv("GENERATED_FLAG") + "() -> ()").c_str());
  unsetenv("GENERATED_FLAG");
  putenv(const_cast<char*>("GENERATED_OTHER=put"));
  m.def((std::string(getenv("GENERATED_OTHER")) + "() -> ()").c_str());
  if (std::getenv("PATH")) m.def("path() -> ()");
  fs::path path("/opt/generated//lib/../name.tar.gz");
  m.def(("file_" + path.stem().stem().string() + "() -> ()").c_str());
  std::string parts;
  for (auto& part : path.lexically_normal()) parts += "_" + std::to_string(part.string().size());
  m.def(("parts" + parts + "() -> ()").c_str());
  if (path.is_absolute() && path.extension() == ".gz") m.def("extension() -> ()");
  m.def(path.replace_extension("so").filename().string() == "name.tar.so" ? "so() -> ()" : "not_so() -> ()");
  if (!fs::exists("/nonexistent/generated")) m.def("absent() -> ()");
  std::error_code error;
  fs::file_size("/nonexistent/generated", error);
  if (error) m.def(("error" + std::to_string(error.value()) + "() -> ()").c_str());
  try {
    fs::create_directory("/nonexistent/generated/below");
    m.def("created() -> ()");
  } catch (const fs::filesystem_error& failure) {
    m.def("not_created() -> ()");
  }
  std::ifstream file("/nonexistent/generated.txt");
  std::string line;
  m.def(std::getline(file, line) ? "line() -> ()" : "no_line() -> ()");
  if (FILE* opened = fopen("/nonexistent/generated.txt", "r")) {
    fclose(opened);
    m.def("opened() -> ()");
  }
  auto begin = steady_clock::now();
  auto span = duration_cast<milliseconds>(hours(1) + minutes(2) + seconds(3));
  m.def(("span" + std::to_string(span.count()) + "() -> ()").c_str());
  (void)begin;
  system_clock::time_point epoch{};
  std::time_t at = system_clock::to_time_t(epoch + hours(24 * 365));
  std::tm broken{};
  gmtime_r(&at, &broken);
  char text[64];
  std::strftime(text, sizeof text, "%Y_%m_%d_%H", &broken);
  m.def((std::string("date") + text + "() -> ()").c_str());
  if (dlsym(RTLD_DEFAULT, "generated_never_defined")) m.def("defined() -> ()");
  if (dlopen("libgenerated_absent.so.1", RTLD_NOW)) m.def("library() -> ()"); else m.def("no_library() -> ()");
}
