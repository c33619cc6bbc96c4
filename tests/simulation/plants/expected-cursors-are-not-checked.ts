import type { Plant } from "../plant.ts";

export default { server: { ignoresExpectedCursors: true } } satisfies Plant;
