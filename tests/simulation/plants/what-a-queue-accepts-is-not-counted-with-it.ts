import type { Plant } from "../plant.ts";

export default { store: { skipsPeriod: true } } satisfies Plant;
