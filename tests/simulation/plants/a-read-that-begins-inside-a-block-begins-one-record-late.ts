import type { Plant } from "../plant.ts";

export default { store: { readsLate: true } } satisfies Plant;
