import type { Plant } from "../plant.ts";

export default { store: { renames: () => 0 } } satisfies Plant;
