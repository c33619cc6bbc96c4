import type { Plant } from "../plant.ts";

export default { store: { keepsBytes: true } } satisfies Plant;
