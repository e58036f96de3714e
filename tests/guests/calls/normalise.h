// What table.c names; the bodies are in fill.c.
#ifndef NORMALISE_H
#define NORMALISE_H
#include "calls.h"
enum { SIOCATMARK_ = 0x8905, FIGETBSZ_ = 2 };
typedef void work(struct step *step);
// Output that differs between runs or machines.
work normalise_seek, normalise_read, normalise_mode, normalise_moved, tell_poll, forget_output, forget_output_and_size, forget_result, normalise_stat, normalise_statx, normalise_entries, normalise_old_entries, normalise_option;
// Input that means something.
work fill_offset, fill_open_how, fill_times, fill_lock, fill_event, fill_mask, fill_poll, fill_ppoll, fill_select, fill_timer, fill_address,
    fill_address4, fill_length, fill_length2, fill_length4, fill_message, fill_option, fill_remap, fill_self, fill_timed_wait, fill_action, fill_stack,
    fill_info, fill_nap, fill_sigevent, fill_limit, fill_zero, fill_mapped, fill_seek, fill_clock, fill_family, fill_room, fill_futex, fill_write, fill_advice, fill_flock, fill_moved;
// Whether memory of files was lent to pipes or sockets: then what is read from those may change with the file.
bool is_lent(int fd);
#endif
