import type { Plant } from "../plant.ts";

export default { store: { endsQueues: true } } satisfies Plant;
