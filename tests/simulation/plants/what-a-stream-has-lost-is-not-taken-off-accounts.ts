import type { Plant } from "../plant.ts";

export default { server: { forgetsLostRanges: true } } satisfies Plant;
