import type { Plant } from "../plant.ts";

export default { server: { keepsLocks: true } } satisfies Plant;
