import type { Plant } from "../plant.ts";

export default { missesRestores: true } satisfies Plant;
