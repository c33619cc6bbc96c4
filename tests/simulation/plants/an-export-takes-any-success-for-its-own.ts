import type { Plant } from "../plant.ts";

export default { backend: { takesAnySuccess: true } } satisfies Plant;
