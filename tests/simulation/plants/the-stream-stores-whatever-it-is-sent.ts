import type { Plant } from "../plant.ts";

export default { streams: { ignoresExpected: true } } satisfies Plant;
