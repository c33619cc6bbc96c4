import type { Plant } from "../plant.ts";

export default { server: { keepsCursors: true } } satisfies Plant;
