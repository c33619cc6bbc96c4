import type { Plant } from "../plant.ts";

export default { server: { forgetsRejections: true } } satisfies Plant;
