import type { Plant } from "../plant.ts";

export default { source: { commitsEarly: true } } satisfies Plant;
