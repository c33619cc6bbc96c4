import type { Plant } from "../plant.ts";

export default { store: { renames: (last) => last } } satisfies Plant;
