import type { Plant } from "../plant.ts";

export default { server: { grantsEveryLock: true } } satisfies Plant;
