// Bindings: the 2-HST.
#include "bind.hpp"

namespace kv::bound {

void tree(nb::module_&) {}

}  // namespace kv::bound
