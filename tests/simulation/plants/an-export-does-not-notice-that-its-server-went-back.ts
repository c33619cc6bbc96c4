/** Each of the two alone is noticed: a reader whose connection ends begins anew, at the position that the server has. */
import type { Plant } from "../plant.ts";

export default { server: { keepsIdentity: true, keepsReaders: true } } satisfies Plant;
