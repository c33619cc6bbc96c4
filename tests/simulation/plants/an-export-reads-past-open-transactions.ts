import type { Plant } from "../plant.ts";

export default { server: { forgetsOpenTransactions: true } } satisfies Plant;
