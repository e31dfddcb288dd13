// Finds lib/libsibling.so through its RUNPATH, $ORIGIN/lib. Every symbol of
// this file is found. The sibling has one that is not, so the loader's text
// begins with the sibling and not with the file that was opened.
extern "C" int abiscan_sibling();

namespace at {
int get_num_threads();
}  // namespace at

int abiscan_sum() { return at::get_num_threads() + abiscan_sibling(); }
