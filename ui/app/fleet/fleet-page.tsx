import { RequiresScope } from "../session/requires-scope.tsx";
import { Fleet } from "./fleet.tsx";

/** `/fleet`: which hosts need a hand, and why. */
export const FleetPage = () => (
  <RequiresScope scope="audit">
    <Fleet />
  </RequiresScope>
);
