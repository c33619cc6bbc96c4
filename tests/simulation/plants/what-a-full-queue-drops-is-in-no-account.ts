import type { Plant } from "../plant.ts";

export default { store: { writes: (content) => ({ ...content, refused: [] }) } } satisfies Plant;
