import type { Plant } from "../plant.ts";

export default { store: { writes: (content) => ({ ...content, ended: true }) } } satisfies Plant;
