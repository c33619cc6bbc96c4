import type { Plant } from "../plant.ts";

export default { store: { skipsState: true } } satisfies Plant;
