import { neverAnswered, type Plant } from "../plant.ts";

export default { ...neverAnswered, accountTimeoutMs: Number.POSITIVE_INFINITY } satisfies Plant;
