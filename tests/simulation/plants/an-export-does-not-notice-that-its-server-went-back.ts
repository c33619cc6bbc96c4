import type { Plant } from "../plant.ts";

export default { server: { keepsIdentity: true } } satisfies Plant;
