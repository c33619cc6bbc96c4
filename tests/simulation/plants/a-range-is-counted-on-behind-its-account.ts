import type { Plant } from "../plant.ts";

export default { server: { keepsRanges: true } } satisfies Plant;
