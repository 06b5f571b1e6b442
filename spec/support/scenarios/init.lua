-- What both facades are put through, and must answer in the same way, on every
-- backend: the lists of this folder, a file for each class.
--
-- A scenario is {name, portable, fn}: fn(P, sb, t) gets a facade, a fresh
-- sandbox and a notebook. Portable ones need no shell and run on every
-- backend, the others where real programs run. The notebook:
--   t:note(label, ...)          writes values down
--   t:try(label, fn, ...)       writes down what a call gives, or raises;
--                               returns the error
--   t:raises(class, code, label, fn, ...)   the same, and insists
--   t.other                     the same objects of the other facade
--   t.backend                   name of the backend
-- What was written down is compared, in its order; labels that begin with \1
-- belong to a walk in no order, and are sorted first.

local scenarios = {}

for _, name in ipairs({
  "module", "backend", "exec", "sandbox", "process", "file_system", "file",
  "tree", "detach", "mistakes",
}) do
  local list = require("spec.support.scenarios." .. name)
  table.move(list, 1, #list, #scenarios + 1, scenarios)
end

return scenarios
