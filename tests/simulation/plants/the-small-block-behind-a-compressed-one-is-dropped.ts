import type { Plant } from "../plant.ts";

export default { server: { dropsSmallBlocks: true } } satisfies Plant;
