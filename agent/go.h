/* go.h - the moment at which a world begins to train. */
#ifndef AGENT_GO_H
#define AGENT_GO_H

#include "agent/agent.h"

/* The daemon says go; where rank 0 is here, find the state it begins with. */
void go_ordered(struct part *part, const struct msg *go);

/* Tell it to those workers that wait for it and may have it. */
void go_tell(struct part *part);

#endif
