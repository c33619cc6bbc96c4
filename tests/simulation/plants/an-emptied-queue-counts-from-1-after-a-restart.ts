import type { Plant } from "../plant.ts";

export default { store: { countsAnew: true } } satisfies Plant;
