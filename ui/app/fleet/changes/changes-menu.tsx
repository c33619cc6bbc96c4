import { lazy } from "solid-js";
import { LazyPart } from "../../design/load-failure.tsx";
import { PopoverMenu } from "../../design/popover-menu.tsx";

const ChangeList = lazy(async () => ({ default: (await import("./change-list.tsx")).ChangeList }));

/** What hosts changed, and whether they are worse since, in a popover. */
export const ChangesMenu = () => (
  <PopoverMenu id="changes-menu" button="Changes" label="Upgrades and changes of labels" class="changes">
    <LazyPart what="The list of changes">
      <ChangeList />
    </LazyPart>
  </PopoverMenu>
);
