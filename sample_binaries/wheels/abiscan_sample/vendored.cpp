// The library vendored into the sample wheel; it needs nothing of torch.
extern "C" int abiscan_vendored_factor() { return 3; }
