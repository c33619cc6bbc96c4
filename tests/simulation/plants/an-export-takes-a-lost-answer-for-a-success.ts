import type { Plant } from "../plant.ts";

export default { backend: { takesLossForSuccess: true } } satisfies Plant;
