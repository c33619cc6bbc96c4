import { lazy } from "solid-js";
import { LazyPart } from "../design/load-failure.tsx";
import { PopoverMenu } from "../design/popover-menu.tsx";

const AheadList = lazy(async () => ({
  default: (await import("./ahead/ahead-list.tsx")).AheadList,
}));
const ChangeList = lazy(async () => ({
  default: (await import("./changes/change-list.tsx")).ChangeList,
}));

/** What runs out in the next three days, and what hosts changed, each in a popover. */
export const QuestionMenus = () => (
  <>
    <PopoverMenu
      id="ahead-menu"
      button="Next 72 h"
      label="What runs out in the next 72 hours"
      class="ahead"
    >
      <LazyPart what="What runs out">
        <AheadList />
      </LazyPart>
    </PopoverMenu>
    <PopoverMenu
      id="changes-menu"
      button="Changes"
      label="Upgrades and changes of labels"
      class="changes"
    >
      <LazyPart what="The list of changes">
        <ChangeList />
      </LazyPart>
    </PopoverMenu>
  </>
);
