import type { Plant } from "../plant.ts";

export default { store: { skipsSync: true } } satisfies Plant;
