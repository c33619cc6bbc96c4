import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

export default { queue: (queue) => withMembers(queue, { sentThrough: () => 0 }) } satisfies Plant;
