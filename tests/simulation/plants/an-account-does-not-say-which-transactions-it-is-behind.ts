import type { Plant } from "../plant.ts";

export default { server: { forgetsAccountXid: true } } satisfies Plant;
