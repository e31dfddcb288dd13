// Facets, manipulators, numbers read and printed, a stream buffer and a facet of its own.
#include <torch/library.h>

#include <algorithm>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>

struct Comma : std::numpunct<char> {
  char do_thousands_sep() const override { return '_'; }
  std::string do_grouping() const override { return "\3"; }
};
struct Upper : std::streambuf {
  std::string all;
  int overflow(int c) override {
    if (c != EOF) all += static_cast<char>(std::toupper(c));
    return c;
  }
};
struct Version {
  int major, minor;
};
static std::ostream& operator<<(std::ostream& out, const Version& v) { return out << v.major << '_' << v.minor; }
static std::istream& operator>>(std::istream& in, Version& v) {
  char dot = 0;
  return in >> v.major >> dot >> v.minor;
}
TORCH_LIBRARY(gen, m) {
  std::ostringstream grouped;
  grouped.imbue(std::locale(std::locale::classic(), new Comma));
  grouped << "grouped_" << 1234567;
  m.def((grouped.str() + "() -> ()").c_str());
  Upper upper;
  std::ostream shouting(&upper);
  shouting << "loud_" << 12 << std::flush;
  m.def((upper.all + "() -> ()").c_str());
  std::istringstream in("2.13 rest of it");
  Version version{};
  std::string rest;
  in >> version >> std::ws;
  std::getline(in, rest);
  std::replace(rest.begin(), rest.end(), ' ', '_');
  std::ostringstream out;
  out << "v" << version << '_' << rest << '_' << std::boolalpha << true << '_' << std::oct << 8 << '_' << std::uppercase
      << std::hex << 255;
  m.def((out.str() + "() -> ()").c_str());
  out.str("");
  out << "aligned" << std::dec << std::left << std::setw(5) << std::setfill('_') << 42 << std::right << std::setw(4) << 7;
  m.def((out.str() + "() -> ()").c_str());
  auto& facet = std::use_facet<std::ctype<char>>(std::locale::classic());
  std::string text = "Facet_Name";
  facet.tolower(&text[0], &text[0] + text.size());
  m.def((text + (facet.is(std::ctype_base::digit, '4') ? "_digit" : "") + "() -> ()").c_str());
  std::stringstream numbers("12 0x1f 077 3.5 nan_text");
  int a = 0, b = 0, c = 0;
  double d = 0;
  numbers >> a >> std::hex >> b >> std::oct >> c >> std::dec >> d;
  m.def(("read_" + std::to_string(a) + "_" + std::to_string(b) + "_" + std::to_string(c) + "_" +
         std::to_string(static_cast<int>(d * 2)) + "() -> ()").c_str());
  int bad = 1;
  numbers >> bad;
  m.def((std::string(numbers.fail() ? "failed" : "read") + std::to_string(bad) + "() -> ()").c_str());
  std::ostringstream precise;
  precise << "p(float a=" << std::setprecision(3) << 3.14159 << ", float b=" << std::scientific << 12345.678
          << ", float c=" << std::defaultfloat << 1e20 << ") -> ()";
  m.def(precise.str().c_str());
  std::wstring wide = L"wide" + std::to_wstring(5);
  m.def((std::string(wide.begin(), wide.end()) + "() -> ()").c_str());
}
