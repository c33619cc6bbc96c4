import type { Plant } from "../plant.ts";

export default { server: { keepsEnds: true } } satisfies Plant;
