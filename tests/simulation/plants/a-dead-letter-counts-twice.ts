import type { Plant } from "../plant.ts";

export default { store: { countsTwice: true } } satisfies Plant;
