import type { Plant } from "../plant.ts";

export default { server: { writesAtOnce: true } } satisfies Plant;
